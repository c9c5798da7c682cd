// a figure that moves: moments with items, played or stepped through, without a kernel
((place, scene, style) => {
  const image = place?.querySelector("img");
  if (!image) return; // where scripts do not know their place, the picture stays
  const SVG = "http://www.w3.org/2000/svg";
  const make = (parent, tag, attributes = {}, text = "") => {
    const drawn = ["svg", "g", "rect", "path", "text"].includes(tag);
    const element = drawn
      ? document.createElementNS(SVG, tag)
      : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes))
      element.setAttribute(name, value);
    element.textContent = text;
    return parent.appendChild(element);
  };
  const { words, axis } = scene;
  const states = scene.states.map(([id, x, y, w, h, role, text, tip]) => (
    { id, x, y, w, h, role: words[role], text: words[text], tip: words[tip] }));

  // --- what is on the page

  // the host of a shadow: the page's own styles do not reach in, nor ours out
  const host = document.createElement("div");
  const root = host.attachShadow({ mode: "open" });
  make(root, "style", {}, style);
  const body = make(root, "div", { class: "scene", role: "group", "aria-label": "figure that moves" });
  const head = make(body, "div", { class: "head" });
  const title = make(head, "div", { class: "title", "aria-live": "polite" });
  // the longest title keeps the room of all: buttons would jump under the pointer
  const longest = scene.runs.flat().map(([number]) => words[number])
    .reduce((one, other) => (other.length > one.length ? other : one));
  make(head, "div", { class: "room", "aria-hidden": "true" }, longest);
  const frame = make(body, "div", { class: "frame" });
  const picture = make(frame, "svg", {
    viewBox: `0 0 ${scene.size.join(" ")}`,
    tabindex: 0,
    role: "application",
    "aria-label": "figure: up and down read what is in it",
  });
  make(body, "div", { class: "cut" }, "The figure goes on to the right: scroll it sideways.");
  const tip = make(body, "div", { class: "tip", "aria-live": "polite" });
  const bar = make(body, "div", { class: "bar" });
  const button = (label, press, name) => {
    const named = name ? { "aria-label": name, title: name } : {};
    const made = make(bar, "button", { type: "button", ...named }, label);
    made.addEventListener("click", press);
    return made;
  };
  // what is off keeps the focus: without it keys would go to the page
  const usable = (made, yes) => made.setAttribute("aria-disabled", String(!yes));
  const slider = (parent, name, most) => make(parent, "input", {
    type: "range", min: 0, max: most, step: 1, "aria-label": name,
  });

  // --- items

  // another run may bring rows and veils: they lie below and above what is there
  const layers = [0, 1, 2].map(() => make(picture, "g"));
  const layer = (role) => /\bbox\b/.test(role) ? 0 : /\b(veil|now|limit)\b/.test(role) ? 2 : 1;
  const elements = new Map();
  const element = (state) => {
    if (elements.has(state.id)) return elements.get(state.id);
    const group = make(layers[layer(state.role)], "g");
    const lined = /\b(line|arrow)\b/.test(state.role);
    const parts = {
      group, lined,
      shape: make(group, lined ? "path" : "rect"),
      text: make(group, "text"),
    };
    // where there is nothing to read, what a key has read stays: a page may scroll below
    // a mouse that rests
    group.addEventListener("pointerenter", () => {
      if (!states[shown.get(state.id)]?.tip) return;
      point(state.id);
      hovered = true;
    });
    group.addEventListener("pointerleave", ({ pointerType }) => {
      if (hovered && pointerType === "mouse") point(null); // a finger is gone at once
    });
    elements.set(state.id, parts);
    return parts;
  };
  // a part of the axis is shown: from `view[0]` on, `view[1]` wide
  let view = axis ? [axis.start, axis.length] : null;
  const across = (x) => axis.left + ((x - view[0]) / view[1]) * axis.width;
  const place_of = (state) => {
    if (!axis || !/\btimed\b/.test(state.role)) return [state.x, state.w];
    const ends = [state.x, state.x + state.w].map((x) =>
      Math.min(axis.left + axis.width, Math.max(axis.left, across(x))));
    return [ends[0], ends[1] - ends[0]];
  };
  const headed = (w, h) => {
    const long = Math.hypot(w, h) || 1;
    const [a, b] = [(6 * w) / long, (6 * h) / long];
    const side = (s) => `M${w} ${h}L${w - a - (s * b) / 2} ${h - b + (s * a) / 2}`;
    return `M0 0L${w} ${h}${side(1)}${side(-1)}`;
  };
  const draw = (state) => {
    const { group, lined, shape, text } = element(state);
    const [x, wide] = place_of(state);
    const outside = axis && /\btimed\b/.test(state.role)
      && (state.x > view[0] + view[1] || state.x + state.w < view[0]);
    const w = axis && /\bevent\b/.test(state.role) ? Math.max(wide, 1.2) : wide;
    group.setAttribute("class", outside ? "gone" : state.role);
    group.style.transform = `translate(${x}px, ${state.y}px)`;
    // an edge parts neighbours of one colour, but would hide a thin bar
    if (/\bevent\b/.test(state.role)) shape.style.strokeWidth = Math.min(1, (w - 1.2) / 6);
    if (lined)
      shape.setAttribute("d", /\barrow\b/.test(state.role)
        ? headed(w, state.h) : `M0 0L${w} ${state.h}`);
    else {
      shape.style.width = `${w}px`;
      shape.style.height = `${state.h}px`;
      shape.setAttribute("rx", /\bdot\b/.test(state.role) ? w / 2 : 3);
    }
    const [left, top] = anchor(state, w);
    text.setAttribute("x", left);
    text.setAttribute("y", top);
    text.textContent = axis && /\bevent\b/.test(state.role) ? fitting(state.text, w) : state.text;
  };
  const anchor = ({ role, h }, w) =>
    /\blabel\b/.test(role) ? [0, h / 2] : /\bbox\b/.test(role) ? [6, 12]
      : /\b(line|arrow)\b/.test(role) ? [w / 2, h / 2 - 7] : [w / 2, h / 2];
  const fitting = (text, room) => {
    const last = text.split(" ").at(-1);
    return 6.6 * text.length + 4 <= room ? text
      : /^\d+$/.test(last) && 6.6 * last.length + 2 <= room ? last : "";
  };

  // --- moments

  const chosen = scene.parameters.map((parameter) => parameter.at);
  let read = null; // the item that is pointed at
  let hovered = false; // by a pointer, not by a key
  let moment = 0, shown = new Map(), timer = null;
  const run = () => scene.runs[scene.parameters.reduce(
    (at, parameter, i) => at * parameter.values.length + chosen[i], 0)];
  const items = (number) => {
    const at = new Map();
    for (const [, changes] of run().slice(0, number + 1))
      for (const change of changes)
        if (change < 0) at.delete(states[-change - 1].id);
        else at.set(states[change].id, change);
    return at;
  };
  const show = (number) => {
    const moments = run();
    moment = Math.max(0, Math.min(moments.length - 1, number));
    const now = items(moment);
    for (const [id, state] of now) if (shown.get(id) !== state) draw(states[state]);
    for (const id of shown.keys())
      if (!now.has(id)) elements.get(id).group.setAttribute("class", "gone");
    shown = now;
    point(now.has(read) ? read : null);
    title.textContent = words[moments[moment][0]];
    steps.max = moments.length - 1;
    steps.value = moment;
    steps.setAttribute("aria-valuetext", words[moments[moment][0]]);
    count.textContent = `${moment + 1} of ${moments.length}`;
    usable(still, moments.length > 1);
    usable(back, moment > 0);
    usable(next, moment < moments.length - 1);
    const line = [...now.values()].map((state) => states[state])
      .find(({ role }) => /\bnow\b.*\btimed\b/.test(role));
    if (!line) return;
    bring(line.x);
    uncover(line);
  };
  const pause = () => {
    clearInterval(timer);
    timer = null;
    still.textContent = "▶ Play";
    title.setAttribute("aria-live", "polite");
  };
  const play = () => {
    if (timer) return pause();
    if (moment === run().length - 1) show(0);
    still.textContent = "❚❚ Pause";
    title.setAttribute("aria-live", "off"); // all titles in a row would be a flood
    timer = setInterval(() => {
      if (moment >= run().length - 2 || !host.isConnected) pause(); // the last title is said
      show(moment + 1);
    }, 1000 * scene.seconds);
  };
  const step = (by) => { pause(); show(moment + by); };
  const still = button("▶ Play", play);
  const back = button("‹", () => step(-1), "one step back");
  const next = button("›", () => step(1), "one step on");
  const steps = slider(bar, "step", 0);
  steps.addEventListener("input", () => { pause(); show(+steps.value); });
  const count = make(bar, "span", { class: "count", "aria-hidden": "true" });

  // --- parameters

  scene.parameters.forEach((parameter, i) => {
    const line = make(body, "label", { class: "bar" });
    make(line, "span", { class: "name" }, parameter.name);
    const input = slider(line, parameter.name, parameter.values.length - 1);
    const value = make(line, "span", { class: "count", "aria-hidden": "true" });
    const name = () => {
      value.textContent = parameter.values[chosen[i]];
      input.setAttribute("aria-valuetext", parameter.values[chosen[i]]);
    };
    input.value = chosen[i];
    input.addEventListener("input", () => {
      chosen[i] = +input.value;
      name();
      pause();
      show(run().length - 1);
    });
    name();
  });

  // --- reading and zooming

  const point = (id) => {
    if (read !== null && elements.has(read)) elements.get(read).group.removeAttribute("data-read");
    read = id;
    const state = id === null ? null : states[shown.get(id)];
    if (state?.tip) elements.get(id).group.setAttribute("data-read", "");
    const text = state?.tip ? said(state) : "";
    if (tip.textContent !== text) tip.textContent = text; // it would be said again
  };
  const said = (state) => {
    if (!axis || !/\bevent\b/.test(state.role)) return state.tip;
    const digits = Math.max(0, 2 - Math.floor(Math.log10(axis.length)));
    const ends = [state.x, state.x + state.w].map((x) => x.toFixed(digits));
    return `${state.tip}, ${ends.join(" to ")} ${axis.unit}`;
  };
  const readable = () => [...shown].filter(([, state]) => states[state].tip)
    .sort(([, a], [, b]) => states[a].y - states[b].y || states[a].x - states[b].x)
    .map(([id]) => id);
  const neighbour = (by) => {
    const ids = readable();
    if (!ids.length) return;
    point(ids[Math.max(0, Math.min(ids.length - 1, ids.indexOf(read) + by))]);
    hovered = false;
    const { role, x, w } = states[shown.get(read)];
    if (/\btimed\b/.test(role)) bring(x + w / 2);
    uncover(states[shown.get(read)]);
  };
  // where the page is narrower than the figure, what is read comes into view
  const uncover = (state) => {
    const [x, w] = place_of(state);
    const scale = picture.getBoundingClientRect().width / scene.size[0];
    const from = frame.scrollLeft, to = from + frame.clientWidth;
    if (x * scale < from || (x + w) * scale > to)
      frame.scrollLeft = (x + w / 2) * scale - frame.clientWidth / 2;
  };
  const ticks = [];
  const rule = () => {
    const rough = view[1] / 6, power = 10 ** Math.floor(Math.log10(rough));
    const size = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    ticks.splice(0).forEach((tick) => tick.remove());
    for (let n = Math.ceil(view[0] / size); n * size <= view[0] + view[1] * 1.0001; n++) {
      const group = make(picture, "g", { class: "tick" });
      make(group, "path", { d: `M0 ${axis.top}V${axis.bottom}` });
      const number = +(n * size).toPrecision(10);
      make(group, "text", { y: axis.bottom + 12 }, number.toLocaleString("en"));
      group.style.transform = `translate(${across(n * size)}px, 0px)`;
      picture.prepend(group);
      ticks.push(group);
    }
  };
  // where somebody reads, else the middle
  const focus = () => {
    const state = states[shown.get(read)];
    return state && /\btimed\b/.test(state.role) ? state.x + state.w / 2 : view[0] + view[1] / 2;
  };
  const zoom = (factor, middle = focus()) => {
    const wide = Math.min(axis.length, Math.max(axis.length / 1000, view[1] * factor));
    const start = middle - ((middle - view[0]) / view[1]) * wide;
    look(start, wide);
  };
  const look = (start, wide) => {
    view = [Math.max(axis.start, Math.min(axis.start + axis.length - wide, start)), wide];
    body.classList.add("zooming"); // what follows a pointer must not lag behind
    shown.forEach((state) => draw(states[state]));
    rule();
    requestAnimationFrame(() => body.classList.remove("zooming"));
    usable(whole, wide < axis.length);
    picture.classList.toggle("closer", wide < axis.length);
  };
  const bring = (time) => {
    if (axis && (time < view[0] || time > view[0] + view[1])) look(time - view[1] / 2, view[1]);
  };
  let whole = null;
  if (axis) {
    button("+", () => zoom(0.5), "zoom in");
    button("−", () => zoom(2), "zoom out");
    whole = button("all", () => look(axis.start, axis.length), "show the whole time");
    const at = (event) => {
      const box = picture.getBoundingClientRect();
      const x = ((event.clientX - box.left) / box.width) * scene.size[0];
      return view[0] + ((x - axis.left) / axis.width) * view[1];
    };
    picture.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return; // the page scrolls on
      event.preventDefault();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, at(event));
    }, { passive: false });
    let held = null;
    picture.addEventListener("pointerdown", (event) => { held = at(event); });
    picture.addEventListener("pointermove", (event) => {
      if (held !== null && event.buttons) look(view[0] + held - at(event), view[1]);
    });
    for (const end of ["pointerup", "pointercancel"])
      picture.addEventListener(end, () => { held = null; });
    // a drag over selected text would be the browser's own
    picture.addEventListener("dragstart", (event) => event.preventDefault());
  }
  const KEYS = {
    ArrowLeft: () => step(-1), ArrowRight: () => step(1),
    ArrowUp: () => neighbour(-1), ArrowDown: () => neighbour(1),
    Home: () => step(-Infinity), End: () => step(Infinity), " ": play,
    ...(axis && {
      "+": () => zoom(0.5), "-": () => zoom(2), 0: () => look(axis.start, axis.length),
    }),
  };
  picture.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
    if (ctrlKey || metaKey || altKey || (shiftKey && key !== "+") || !KEYS[key]) return;
    event.preventDefault();
    event.stopPropagation();
    KEYS[event.key]();
  });
  // plain keys belong to the scene: JupyterLab would move on to another cell
  host.addEventListener("keydown", (event) => {
    if (!event.ctrlKey && !event.metaKey && !event.shiftKey && event.key !== "Escape")
      event.stopPropagation();
  });
  make(body, "div", { class: "source" }, scene.source);
  if (axis) look(axis.start, axis.length);
  show(run().length - 1);
  place.replaceChildren(host);
})
