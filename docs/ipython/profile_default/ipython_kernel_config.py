"""How the kernels of the notebooks start: without remarks about themselves."""

c = get_config()  # type: ignore[name-defined] # noqa: F821
c.IPKernelApp.log_level = "ERROR"
