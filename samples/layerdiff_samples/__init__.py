"""Sample models and cases: what layerdiff is shown on, and tested with."""
