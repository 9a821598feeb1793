"""Inputs: what a user gives, checked and made ready for the network and the search."""
