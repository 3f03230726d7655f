"""Errors that have a meaning to the host.

Any exception that a plugin raises in a call becomes the error of that call, with its message. For errors that a user can
cause, raise ValueError or one of these, with a message for people: lower case, what was seen and what was wanted. For all
others the traceback goes to standard error as well.
"""


class OutOfMemory(Exception):
    """The device has too little memory for what was asked."""


class Unsupported(Exception):
    """The device or rule cannot do what was asked."""


class Cancelled(Exception):
    """The host cancelled the call. It is raised where a call waits for the host; plugins should not catch it."""
