"""Every parser of bytes that others wrote, fed with garbage: by hypothesis in CI, by atheris in `make fuzz`."""
