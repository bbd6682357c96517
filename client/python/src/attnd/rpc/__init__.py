"""Details of errors as they travel."""
