"""Reports as text: each format is one file with one function from a report to a string."""
