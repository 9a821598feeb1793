"""The one error that means "what you gave me cannot be used"; the command line turns it into exit code 2."""


class InputError(ValueError):
    """Input that cannot be used. The message says what is wrong, where, and what to do about it."""
