"""Gates: what two or three arms did with a suite in, a figure against its threshold and a verdict out."""
