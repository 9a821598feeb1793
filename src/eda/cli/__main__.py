"""`python -m eda.cli`, which is how `torchrun -m` starts the command."""

from eda.cli import main

main()
