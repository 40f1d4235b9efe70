"""Pi's end of the line: JSON-RPC over the sidecar's pipes, and the `Host` that commands see when Pi called them.

Imports the foundation only, and nothing that is slow to load: Pi is waiting for the hello.
"""
