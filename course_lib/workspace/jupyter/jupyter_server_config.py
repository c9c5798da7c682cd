"""Lets JupyterLab load `custom/custom.css`; Jupyter runs this file, as it has `c`."""

from pathlib import Path

c.LabApp.custom_css = True  # type: ignore[name-defined]  # noqa: F821
# its folder is no option of Jupyter's own, but a setting of its web server
c.ServerApp.tornado_settings.update(  # type: ignore[name-defined]  # noqa: F821
    {"static_custom_path": [str(Path(__file__).with_name("custom"))]}
)
