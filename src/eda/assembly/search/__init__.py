"""Search: from proposals of pairs to ranked assemblies of all pieces."""
