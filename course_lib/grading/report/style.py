"""The style sheet of the pages with grades: light, dark, phone, paper."""

# the hues of course_lib/colors.py; black text on each has a contrast of 5 or more
STYLE = """
:root {
  color-scheme: light dark;
  --paper: #ffffff; --ink: #1a1a1a; --soft: #595959; --rule: #d4d4d4;
  --panel: #f5f5f5; --link: #005a8c;
  --right: #009e73; --not-yet: #d55e00; --not-started: #e69f00; --other: #cc79a7;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #161616; --ink: #ececec; --soft: #adadad; --rule: #444444;
    --panel: #242424; --link: #7cc7f0;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.5rem clamp(1rem, 3vw, 3rem) 4rem; max-width: 76rem;
  background: var(--paper); color: var(--ink);
  font: clamp(1rem, 0.9rem + 0.3vw, 1.2rem)/1.5 system-ui, sans-serif;
  overflow-wrap: anywhere;
}
h1 { font-size: 1.7em; line-height: 1.2; margin: 0 0 .3em; text-wrap: balance; }
h2 { font-size: 1.25em; line-height: 1.3; margin: 2.2em 0 .6em; }
h3 { font-size: 1em; margin: 0; }
.whole { white-space: nowrap; }
a { color: var(--link); }
.facts, .note, .source, .axis, .legend { color: var(--soft); margin: 0; }
.source, .axis, .legend { font-size: .85em; }
.look { padding-left: 1.2em; }
.look li { margin-bottom: .6em; }
.why { margin: 0; white-space: pre-wrap; }

.right { background: var(--right); }
.not-yet { background: var(--not-yet); }
.not-started { background: var(--not-started); }
.other { background: var(--other); }
.legend { margin-bottom: .8em; }
.legend span { margin-right: 1.2em; white-space: nowrap; }
.legend i {
  display: inline-block; width: .9em; height: .9em; margin-right: .4em;
  border-radius: 2px; vertical-align: -.1em;
}
.bar {
  display: grid; grid-template-columns: minmax(3.2em, max-content) 1fr 9.5em;
  gap: .8em; align-items: center; margin-bottom: .35em;
}
.bar > b { text-align: right; }
.stack { display: flex; gap: 2px; height: 1.7em; }
.stack span {
  flex: 0 1 0; min-width: 3px; color: #000000; font-size: .85em; line-height: 2em;
  padding-left: .4em; overflow: hidden; white-space: nowrap; border-radius: 2px;
}
.stack span:empty { padding: 0; }

.plots { display: flex; flex-wrap: wrap; gap: 1.5rem 3rem; }
figure { margin: 0; flex: 1 1 22rem; max-width: 45rem; }
figcaption { font-weight: bold; margin-bottom: .3em; }
.bins {
  display: flex; align-items: flex-end; gap: 3px;
  border-bottom: 1px solid var(--rule); margin-bottom: 1.9em;
}
.bin { flex: 1 1 0; text-align: center; font-size: .85em; position: relative; }
.bin i { display: block; background: #56b4e9; border-radius: 3px 3px 0 0; }
.bin b {
  position: absolute; top: 100%; left: -1em; right: -1em; font-weight: normal;
  white-space: nowrap; color: var(--soft);
}

.wide { overflow-x: auto; }
table { border-collapse: separate; border-spacing: 2px; font-size: .9em; }
th, td { padding: .2em .4em; text-align: center; white-space: nowrap; }
td.right { background: color-mix(in srgb, var(--right) 25%, var(--paper)); }
td.not-yet, td.not-started, td.other { color: #000000; }
thead th { font-weight: normal; color: var(--soft); vertical-align: bottom; }
.points { text-align: right; }
th.group, td.group { padding-left: 1.2em; }
th.group[colspan] { text-align: left; color: var(--ink); }
td.none { text-align: left; font-style: italic; color: var(--soft); }
.who {
  text-align: left; position: sticky; left: 0; background: var(--paper);
  font-weight: normal; max-width: 20em; white-space: normal;
  overflow-wrap: break-word;
}

.task {
  background: var(--panel); border-left: .4em solid; border-radius: 4px;
  padding: .7em 1em; margin: .7em 0; max-width: 60rem;
}
.edge-right { border-color: var(--right); }
.edge-not-yet { border-color: var(--not-yet); }
.edge-not-started { border-color: var(--not-started); }
.edge-other { border-color: var(--other); }
.task h3 { display: flex; gap: .6em; align-items: baseline; }
.task h3 .note { margin-left: auto; font-weight: normal; white-space: nowrap; }
.mark {
  color: #000000; border-radius: 3px; min-width: 1.5em; text-align: center;
}
.prose { white-space: pre-wrap; margin: .4em 0 0; }
pre {
  margin: .5em 0; padding: .4em .6em; overflow-x: auto; background: var(--paper);
  border-radius: 3px; font: .85em/1.45 ui-monospace, monospace;
}
.hint { margin-top: .7em; padding-top: .5em; border-top: 1px solid var(--rule); }
.hint > b + .prose { margin-top: 0; }
.flag { border: 2px solid var(--other); border-radius: 4px; padding: .5em .8em; }
.flag { white-space: pre-wrap; max-width: 60rem; }
.repairs { margin-top: 1em; }
.repairs ul { margin: .2em 0; padding-left: 1.2em; }

@media (max-width: 36rem) {
  .bar { grid-template-columns: 3.2em 1fr; row-gap: 0; margin-bottom: .6em; }
  .bar .note { grid-column: 2; font-size: .85em; }
  .who { max-width: 9em; }
  .bin b { font-size: .8em; }
  .task { padding: .6em .7em; }
}
@media print {
  :root {
    color-scheme: light;
    --paper: #ffffff; --ink: #000000; --soft: #444444; --rule: #bbbbbb;
    --panel: #ffffff; --link: #000000;
  }
  body { padding: 0; max-width: none; font-size: 10pt; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  h2, h3 { break-after: avoid; }
  .task, .bar, .bins, tr, li { break-inside: avoid; }
  .task { outline: 1px solid var(--rule); }
  .wide { overflow: visible; }
  table { font-size: 6pt; }
  th, td { padding: .1em .25em; }
  .who { position: static; }
  pre { white-space: pre-wrap; }
}
"""
