"""What is written for a person: the result folder of an assembly, with its files, pictures and report."""
