"""Programs that the project is maintained with."""
