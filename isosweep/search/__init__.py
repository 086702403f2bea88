"""Which run to train next."""
