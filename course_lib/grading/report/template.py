"""The pages with grades, as templates for jinja2."""

# the first bytes of a page, by which a later run knows that it may replace it
MARKER = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="course_lib.grading">
"""

BASE = (
    MARKER
    + """\
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'">
<title>{{ title }}</title>
<style>{% include "style" %}</style>
</head>
<body>
{% block body %}{% endblock %}
</body>
</html>
"""
)

OVERVIEW = """\
{% extends "base" %}
{% block body %}
<header>
<h1>{{ title }}</h1>
<p class="facts">{{ facts | join(" · ") }}
{% if look %} · <a href="#look">{{ look | length }} to look at</a>{% endif %}</p>
</header>
<main>
{% if bars %}
<section>
<h2>{{ missed_title }}</h2>
<p class="legend">{% for one in legend %}<span><i class="{{ one.kind }}"></i>
{{- one.text }}</span> {% endfor %}</p>
<div class="bars" role="list">
{% for bar in bars %}
<div class="bar" role="listitem">
<b>{{ bar.id }}</b>
<div class="stack" role="img" aria-label="{{ bar.label }}">
{% for part in bar.parts %}<span class="{{ part.kind }}"
 style="flex-grow: {{ part.count }}" title="{{ part.text }}">
{%- if part.wide %}{{ part.mark }} {{ part.count }}{% endif %}</span>{% endfor %}
</div>
<span class="note">{{ bar.missed }} of {{ bar.total }} missed</span>
</div>
{% endfor %}
</div>
</section>
{% endif %}

{% if plots %}
<section>
<h2>{{ plots_title }}</h2>
<div class="plots">
{% for plot in plots %}
<figure>
<figcaption>{{ plot.name }}</figcaption>
<div class="bins" role="img" aria-label="{{ plot.label }}">
{% for bin in plot.bins %}
<div class="bin"><span>{{ bin.count or "" }}</span>
<i style="height: {{ bin.height }}rem"></i>
<b>{{ bin.name }}</b></div>
{% endfor %}
</div>
<p class="axis">{{ plot.axis }}</p>
</figure>
{% endfor %}
</div>
</section>
{% endif %}

{% if look %}
<section id="look">
<h2>A person should look at {{ look | length }}</h2>
<ul class="look">
{% for one in look %}
<li><a href="{{ one.page }}"><bdi>{{ one.learner }}</bdi></a>, {{ one.notebook }}:
<b>{{ one.score }}</b>
<p class="why">{{ one.why }}</p>
<p class="source">{{ one.source }}</p></li>
{% endfor %}
</ul>
</section>
{% endif %}

{% if rows %}
<section>
<h2>{{ rows_title }}</h2>
<div class="wide">
<table>
<thead>
<tr><th rowspan="2" class="who">learner</th>
{% for column in columns %}
<th colspan="{{ column.ids | length + 1 }}" class="group">{{ column.name }}</th>
{% endfor %}</tr>
<tr>
{% for column in columns %}
<th class="points group">points</th>
{% for id in column.ids %}<th>{{ id }}</th>{% endfor %}
{% endfor %}</tr>
</thead>
<tbody>
{% for row in rows %}
<tr><th class="who"><a href="{{ row.page }}"><bdi>{{ row.learner }}</bdi></a>
{%- if row.look %} <span title="a person should look at it">⚑</span>{% endif %}</th>
{% for cell in row.cells %}
{% if cell.marks %}
<td class="points group">{{ cell.score }}</td>
{% for mark in cell.marks %}
<td class="{{ mark.kind }}" title="{{ mark.text }}">{{ mark.mark }}</td>
{% endfor %}
{% else %}
<td colspan="{{ cell.width }}" class="group none">{{ cell.score }}</td>
{% endif %}
{% endfor %}</tr>
{% endfor %}
</tbody>
</table>
</div>
</section>
{% endif %}
</main>
{% endblock %}
"""

LEARNER = """\
{% extends "base" %}
{% block body %}
<header>
<h1><bdi>{{ learner }}</bdi>: {{ total }}</h1>
</header>
<main>
{% for one in notebooks %}
<section>
<h2>{{ one.name }}: <span class="whole">{{ one.score }}</span></h2>
<p class="source">{{ one.source }}</p>
{% if one.why %}<p class="flag">⚑ {{ one.why }}</p>{% endif %}
{% for task in one.tasks %}
<article class="task edge-{{ task.kind }}">
<h3><span class="mark {{ task.kind }}">{{ task.mark }}</span>
<span>{{ task.id }} {{ task.outcome }}</span>
<span class="note">{{ task.amount }} points</span></h3>
{% for block in task.blocks %}
{% if block.code %}<pre>{{ block.text }}</pre>
{% else %}<p class="prose">{{ block.text }}</p>{% endif %}
{% endfor %}
{% if task.hint %}
<div class="hint"><b>Hint</b>
{% for block in task.hint %}
{% if block.code %}<pre>{{ block.text }}</pre>
{% else %}<p class="prose">{{ block.text }}</p>{% endif %}
{% endfor %}
</div>
{% endif %}
</article>
{% endfor %}
{% if one.repairs %}
<div class="repairs"><h3>{{ noted }}</h3>
<ul>{% for repair in one.repairs %}<li>{{ repair }}</li>{% endfor %}</ul></div>
{% endif %}
</section>
{% endfor %}
</main>
{% endblock %}
"""
