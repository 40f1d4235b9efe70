"""Work: futures, their order and their bounds, and the one thread that does them in fair turns."""
