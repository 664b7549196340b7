"""The screen of layerdiff: one dump or a pair, as a grid of layers by positions."""
