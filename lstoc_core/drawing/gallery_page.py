"""The gallery's HTML: a card, the body with style and filter, the page round it; light and dark, wide and narrow."""

from string import Template

CARD = Template("""<section id="$name" data-notebook="$notebook" data-origin="$origin" data-verdicts="$verdicts">
<h2>$kind <code>$name</code></h2><p>$caption</p>
$body
$claims
<dl>$facts</dl>
</section>""")

BODY = Template("""<style>
.gallery { --paper: #fff; --ink: #1f2933; --soft: #5c6773; --line: #d9dee4; --link: #0b5cad; color: var(--ink); }
@media (prefers-color-scheme: dark) {
  body:not([data-theme="light"]) .gallery { --paper: #1d2126; --ink: #e7eaee; --soft: #a3adb8; --line: #3a424b;
    --link: #79b8ff; }
}
body[data-theme="dark"] .gallery { --paper: #1d2126; --ink: #e7eaee; --soft: #a3adb8; --line: #3a424b;
  --link: #79b8ff; }
.gallery form { display: flex; flex-wrap: wrap; gap: .6rem; margin: 1rem 0; align-items: center; }
.gallery input, .gallery select { font: inherit; padding: .35rem .6rem; border: 1px solid var(--line);
  border-radius: 6px; background: var(--paper); color: var(--ink); max-width: 100%; }
.gallery input { flex: 1 1 14rem; min-width: 0; }
.gallery output { color: var(--soft); font-size: .9rem; }
.gallery main { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 400px), 1fr)); gap: 1.2rem; }
.gallery section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 1rem;
  min-width: 0; overflow-wrap: anywhere; }
.gallery section[hidden] { display: none; }
.gallery h2 { font-size: 1rem; margin: 0; padding: 0; line-height: 1.5; } .gallery p { margin: .4rem 0; }
.gallery img { max-width: 100%; max-height: 380px; display: block; margin: .6rem auto; background: #fff;
  border-radius: 6px; }
.gallery a { color: var(--link); }
.gallery code { font-size: .85em; background: none; border: 0; padding: 0; color: inherit; }
.gallery .claim { border-left: 3px solid var(--line); padding-left: .7rem; margin: .6rem 0; font-size: .9rem; }
.gallery .claim p { margin: .15rem 0; }
.gallery .verdict { border-radius: 99px; padding: .05rem .6rem; font-size: .8rem; color: #fff; background: #5c6773; }
.gallery .verdict.confirmed { background: #00704f; } .gallery .verdict.differs { background: #b34700; }
.gallery dl { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: .1rem .8rem; margin: .6rem 0 0;
  font-size: .82rem; color: var(--soft); }
.gallery dt, .gallery dd { margin: 0; line-height: 1.5; } .gallery dt { font-weight: 600; }
.gallery .none { color: #c0392b; }
</style>
<div class="gallery">
<form role="search" onsubmit="return false">
<input type="search" placeholder="search: fsm, Office, planner, …" aria-label="search the figures">
<select name="notebook" aria-label="notebook"><option value="">all notebooks</option>$notebooks</select>
<select name="origin" aria-label="origin"><option value="">the paper's and ours</option>
<option value="paper">the paper's</option><option value="ours">ours</option></select>
<select name="verdicts" aria-label="verdict"><option value="">all verdicts</option>
<option value="confirmed">confirmed</option><option value="differs">differs</option>
<option value="not-measured">not measured yet</option><option value="not-comparable">not comparable</option>
<option value="none">no claim to decide</option></select>
<output>$count cards</output>
</form>
<main>
$cards
</main>
</div>
<script>
(() => {
  const gallery = document.querySelector(".gallery"), form = gallery.querySelector("form");
  const cards = [...gallery.querySelectorAll("section")];
  form.addEventListener("input", () => {
    const words = form.querySelector("input").value.toLowerCase().split(/\\s+/);
    const fits = (card) => words.every((word) => card.textContent.toLowerCase().includes(word)) &&
      [...form.querySelectorAll("select")].every((choice) => !choice.value ||
        card.dataset[choice.name].split(" ").includes(choice.value));
    cards.forEach((card) => { card.hidden = !fits(card); });
    form.querySelector("output").textContent = cards.filter((card) => !card.hidden).length + " cards";
  });
})();
</script>""")

PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>LSTOC: every figure, table and algorithm</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #1f2933; background: #f4f5f7; }
body { margin: 0 auto; max-width: 1500px; padding: clamp(.8rem, 3vw, 2rem); }
@media (prefers-color-scheme: dark) { body { color: #e7eaee; background: #14171a; } }
h1 { font-size: clamp(1.3rem, 4vw, 2rem); line-height: 1.2; }
</style>
</head>
<body>
<h1>Learning hidden subgoals under temporal ordering constraints</h1>
<p>Every figure, table and algorithm of Xu &amp; Fekri (arXiv 2411.01425), as this repository makes it, and those that
are ours. Verdicts are those of
<code>docs/claims.md</code>, from the committed runs. Written by <code>python -m lstoc_core reproduce</code>.</p>
$body
</body>
</html>
""")
