// what of a notebook's outputs is hard to read, or cut: a list of sentences
() => {
  const number = (text) => text.match(/[\d.]+(e-?\d+)?/g).map(Number);
  const parsed = (text) => {
    const parts = number(text);
    const scale = text.startsWith("color(srgb") ? 255 : 1;
    return [...parts.slice(0, 3).map((part) => part * scale), parts[3] ?? 1];
  };
  const over = (top, share, below) =>
    top.slice(0, 3).map((part, i) => part * share + below[i] * (1 - share));
  const light = (color) => {
    const [r, g, b] = color.map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  // scenes have a shadow root, whose host stands around it
  const above = (element) => element.parentElement ?? element.getRootNode().host;
  const all = (element) => [...element.querySelectorAll("*")].flatMap((inner) =>
    inner.shadowRoot ? [inner, ...all(inner.shadowRoot)] : [inner]);
  // each element once: most ask for the same ancestors, and styles take their time
  const once = (compute) => {
    const known = new Map();
    return (element) => {
      if (!known.has(element)) known.set(element, compute(element));
      return known.get(element);
    };
  };
  // what stands behind an element, as it is painted
  const behind = once((element) => {
    if (!element) return [255, 255, 255];
    const color = parsed(getComputedStyle(element).backgroundColor);
    return color[3] === 1 ? color.slice(0, 3) : over(color, color[3], behind(above(element)));
  });
  const opacity = once((element) => element.matches(".jp-OutputArea-output")
    ? 1 : getComputedStyle(element).opacity * opacity(above(element)));
  const faults = [];
  for (const output of document.querySelectorAll(".jp-OutputArea-output")) {
    const room = output.getBoundingClientRect();
    for (const element of all(output)) {
      // what is drawn has colours of its own, which tests of plots compare
      if (element.closest("svg, style")) continue;
      const own = [...element.childNodes].filter((n) => n.nodeType === 3);
      const text = own.map((n) => n.textContent).join("").trim();
      const box = element.getBoundingClientRect();
      if (!box.width || !box.height || element.closest("[disabled], [aria-disabled=true], .room")) continue;
      const inside = element.tagName === "IMG" || element.getRootNode().host;
      if (inside && box.right > room.right + 1)
        faults.push(`cut: ${(element.alt ?? text).slice(0, 60)}`);
      if (text && getComputedStyle(element).wordBreak === "break-all")
        faults.push(`breaks inside of words: ${text.slice(0, 60)}`);
      if (element.tagName === "BUTTON" && element.scrollWidth > element.clientWidth + 1)
        faults.push(`cut: ${text}`);
      // the colours of IPython's own tracebacks are the theme's
      const error = element.closest("[data-mime-type='application/vnd.jupyter.stderr']");
      const colored = element.style.color || /ansi-\w+-fg/.test(element.className);
      if (!text || (error && colored)) continue;
      const style = getComputedStyle(element);
      const share = opacity(element);
      const ground = behind(element);
      const color = parsed(style.color);
      const shades = [light(over(color, color[3] * share, ground)), light(ground)];
      const contrast = (Math.max(...shades) + 0.05) / (Math.min(...shades) + 0.05);
      if (contrast < 4.5) faults.push(`${contrast.toFixed(1)} to 1: ${text.slice(0, 60)}`);
    }
  }
  return faults;
}
