// A list of any length: only the rows in sight are elements. One stop for the tabulator; arrows move inside.

const BEYOND = 8;

export class List {
  // `draw` makes the cells of a row, `open` is called for a row that was chosen.
  constructor(box, { draw, open = () => {}, turn = () => {} }) {
    Object.assign(this, { box, draw, open, turn, rows: [], at: null, last: 0, shown: new Map() });
    this.space = document.createElement('div');
    this.space.className = 'space';
    this.space.setAttribute('role', 'presentation');
    box.append(this.space);
    box.addEventListener('scroll', () => this.render(), { passive: true });
    box.addEventListener('keydown', (event) => this.pressed(event));
    box.addEventListener('focus', () => this.select(this.position(), false));
    box.addEventListener('click', (event) => this.clicked(event));
    new ResizeObserver(() => this.render(true)).observe(box);
  }

  // Rows have a `key`, by which the chosen one is found again, and a `mark` that differs when they look different.
  show(rows) {
    this.rows = rows;
    this.places = null;
    this.box.setAttribute('aria-rowcount', rows.length);
    this.render();
  }

  height() {
    const root = parseFloat(getComputedStyle(document.documentElement).fontSize);
    return root * parseFloat(getComputedStyle(this.box).getPropertyValue('--row'));
  }

  position() {
    if (this.at === null) return 0;
    this.places ??= new Map(this.rows.map((row, index) => [row.key, index]));
    // Where the chosen one is gone, whatever took its place.
    return this.places.get(this.at) ?? Math.min(this.last, this.rows.length - 1);
  }

  render(anew = false) {
    if (anew) {
      this.shown.forEach(({ element }) => element.remove());
      this.shown.clear();
    }
    const height = this.height();
    this.space.style.height = `${this.rows.length * height}px`;
    const first = Math.max(0, Math.floor(this.box.scrollTop / height) - BEYOND);
    const last = Math.min(this.rows.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / height) + BEYOND);
    const wanted = new Set();
    let before = null;
    for (let index = first; index < last; index++) {
      wanted.add(this.rows[index].key);
      before = this.place(this.rows[index], index, height, before);
    }
    for (const [key, { element }] of this.shown) {
      if (!wanted.has(key)) {
        element.remove();
        this.shown.delete(key);
      }
    }
    const active = this.at === null ? undefined : this.shown.get(this.at);
    if (active) this.box.setAttribute('aria-activedescendant', active.element.id);
    else this.box.removeAttribute('aria-activedescendant');
  }

  // Elements stand in the order of their rows, which is the one in which they are read out.
  place(row, index, height, before) {
    let shown = this.shown.get(row.key);
    if (!shown || shown.mark !== row.mark) {
      const made = this.draw(row);
      made.id = shown?.element.id ?? `${this.box.id}-${List.made++}`;
      made.classList.add('row');
      made.setAttribute('role', 'row');
      shown?.element.replaceWith(made);
      shown = { element: made, mark: row.mark };
      this.shown.set(row.key, shown);
    }
    shown.index = index;
    shown.element.style.transform = `translateY(${index * height}px)`;
    shown.element.setAttribute('aria-rowindex', index + 1);
    shown.element.classList.toggle('at', row.key === this.at);
    const next = before ? before.nextSibling : this.space.firstChild;
    if (next !== shown.element) this.space.insertBefore(shown.element, next);
    return shown.element;
  }

  select(index, scroll = true) {
    const row = this.rows[Math.max(0, Math.min(index, this.rows.length - 1))];
    if (!row) return;
    const [height, place] = [this.height(), this.rows.indexOf(row)];
    Object.assign(this, { at: row.key, last: place });
    const room = this.box.clientHeight - height;
    if (scroll && place * height < this.box.scrollTop) this.box.scrollTop = place * height;
    if (scroll && place * height > this.box.scrollTop + room) this.box.scrollTop = place * height - room;
    this.render();
  }

  clicked(event) {
    const element = event.target.closest('.row');
    const found = [...this.shown.values()].find((shown) => shown.element === element);
    if (!found) return;
    this.select(found.index, false);
    this.open(this.rows[found.index]);
  }

  pressed(event) {
    if (event.altKey || event.ctrlKey || event.metaKey || !this.rows.length) return;
    const [index, page] = [this.position(), Math.max(1, Math.floor(this.box.clientHeight / this.height()) - 1)];
    const acts = {
      ArrowDown: () => this.select(index + 1),
      ArrowUp: () => this.select(index - 1),
      PageDown: () => this.select(index + page),
      PageUp: () => this.select(index - page),
      Home: () => this.select(0),
      End: () => this.select(this.rows.length - 1),
      Enter: () => this.open(this.rows[index]),
      ' ': () => this.open(this.rows[index]),
      ArrowRight: () => this.turn(this.rows[index], true),
      ArrowLeft: () => this.turn(this.rows[index], false),
    };
    const act = Object.hasOwn(acts, event.key) ? acts[event.key] : null;
    if (!act) return;
    event.preventDefault();
    act();
  }
}

List.made = 1;
