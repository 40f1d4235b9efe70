"""Tinker's API over HTTP: who may ask, what is asked, and the answer. All thinking is elsewhere."""
