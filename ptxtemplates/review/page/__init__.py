"""What `ptxtemplates.review.html` makes its page of: rows, colours, machine code, and the page's files."""
