"""Contact: what it means that pieces fit, and what an assembly scores by it."""
