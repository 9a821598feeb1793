"""The one error that means "what you gave me cannot be used"; the command line turns it into exit code 2.

And the one warning that means "it can be used, but did you mean it?"; the command line prints it as one line.
"""


class InputError(ValueError):
    """Input that cannot be used. The message says what is wrong, where, and what to do about it."""


class DivergedError(InputError):
    """Numbers that left all bounds: a training whose steps all fail, or a model whose field is not finite."""


class InputWarning(UserWarning):
    """Input that is used as it is, but is probably not what was meant. The message says what, where and what to do."""
