"""One module a command: ``configure(parser)`` adds its options, ``run(args)`` does it and returns the exit code.

Modules import nothing heavy at the top: the parser of every command is built to print help.
"""
