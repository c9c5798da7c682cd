"""Writes docs/virtual-gpus.md."""

from tests.capabilities import PAGE, page
from tests.capabilities.rows import ROWS

if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"docs/{PAGE.name}: {len(ROWS)} rows")
