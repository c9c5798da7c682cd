"""Where ranks stand: asked, compared, explained when nothing goes on."""
