// what screen readers say of a guess and of sliders: ipywidgets names neither;
// and what all see of them once their kernel has ended, in place of icons
((panel) => {
  if (!panel) return; // where scripts do not know their place
  // an attribute that is set again would be a change again
  const set = (element, name, value) => {
    if (element && element.getAttribute(name) !== value) element.setAttribute(name, value);
  };
  const lost = "jupyter-widgets-disconnected";
  const end = (line) => {
    const all = [panel, ...panel.querySelectorAll(`.${lost}`)];
    if (!all.some((element) => element.classList.contains(lost))) return;
    for (const element of all) element.classList.remove(lost);
    for (const button of panel.querySelectorAll("button")) button.disabled = true;
    for (const slider of panel.querySelectorAll(".noUi-target")) set(slider, "disabled", "");
    line.textContent = "The kernel of these buttons has ended. "
      + "Run › Run All Above Selected Cell, then run this cell.";
  };
  const name = () => {
    const lines = [...panel.querySelectorAll(".widget-html-content")];
    end(lines.at(-1));
    set(lines.at(-1), "role", "status");
    for (const row of panel.querySelectorAll(".widget-toggle-buttons")) {
      set(row, "role", "group");
      set(row, "aria-label", lines[0].textContent);
      for (const button of row.querySelectorAll("button"))
        set(button, "aria-pressed", String(button.classList.contains("mod-active")));
    }
    for (const slider of panel.querySelectorAll(".widget-slider")) {
      const handle = slider.querySelector(".noUi-handle");
      set(handle, "aria-label", slider.querySelector(".widget-label").textContent);
      // of a list, the value would be the number of its item
      set(handle, "aria-valuetext", slider.querySelector(".widget-readout").textContent);
    }
  };
  const all = { subtree: true, childList: true, characterData: true };
  const attributeFilter = ["class", "aria-valuetext"];
  new MutationObserver(name).observe(panel, { ...all, attributeFilter });
  name();
})(document.currentScript?.closest(".course-guess, .course-explore"));
