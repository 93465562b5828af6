# Returns the process id of the host if an attribute of something leads to the host's modules.
found = 'contained'
for attempt in ["().__class__.__base__.__subclasses__()", "echo.__globals__['__builtins__']", "__import__('os').getpid()"]:
    try:
        value = eval(attempt)
        if isinstance(value, int):
            found = value
    except BaseException:
        pass
found
