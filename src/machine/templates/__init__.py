"""Templates: the files that `/train` writes into the store. Data only, no logic."""
