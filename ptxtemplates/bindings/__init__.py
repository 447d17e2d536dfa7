"""What build systems and other languages need of a build: dependencies, a C header, a Rust module."""
