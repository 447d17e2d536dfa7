"""Kernels with symbolic data: what they compute as terms, exactly or over the real numbers. Takes PTX."""

from ptxtemplates.symbolic.launch import Data, Fixed, Pointers, run
from ptxtemplates.symbolic.numbers import Numbers
from ptxtemplates.symbolic.real_terms import RealTerms
from ptxtemplates.symbolic.terms import Terms
from ptxtemplates.symbolic.values import UndecidedError

__all__ = ["Data", "Fixed", "Pointers", "Numbers", "RealTerms", "Terms", "UndecidedError", "run"]
