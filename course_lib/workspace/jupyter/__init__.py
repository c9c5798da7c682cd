"""Settings of the JupyterLab that `make lab` starts; JUPYTER_CONFIG_PATH names them."""
