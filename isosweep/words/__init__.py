"""Every sentence that a user reads: typed functions, a module for each surface, and HTML pages.

Functions word what was decided elsewhere (an `Answer`, an `Outlook`, a plan) and decide nothing.
They import types alone from the rooms above.
"""
