"""Messages of attnd.rpc.v1, generated from proto/ when attnd is built."""
