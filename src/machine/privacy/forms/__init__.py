"""Forms: what credentials look like and where they stand: the rules by which they are found."""
