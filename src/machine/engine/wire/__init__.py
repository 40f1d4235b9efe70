"""Wire formats: bytes of a client in, checked values out, and back. Queues nothing."""
