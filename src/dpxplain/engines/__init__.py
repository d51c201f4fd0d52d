"""The engines, which open the data and count rows. Only the modules in this package see rows."""
