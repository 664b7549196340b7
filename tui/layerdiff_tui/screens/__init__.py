"""The screens: the grid, and what opens over it; one a file."""
