"""One module per family of caches, and what tells whether a cached tensor was touched."""
