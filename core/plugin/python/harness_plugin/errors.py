"""Errors that have a meaning to the host.

Any exception that a plugin raises in a call becomes the error of that call, with its message. For those that a user can cause, raise ValueError or one
of these, with a message for people: lower case, what was seen and what was wanted. Of others the traceback goes to standard error as well.
"""


class OutOfMemory(Exception):
    """The device has too little memory for what was asked."""


class Unsupported(Exception):
    """The device or rule can't do what was asked."""


class Cancelled(Exception):
    """The host gave the call up. It is raised where a call waits for the host, and plugins let it pass."""
