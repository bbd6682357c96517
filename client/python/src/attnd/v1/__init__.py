"""Messages and stubs of attnd.v1, generated from proto/ when attnd is built."""
