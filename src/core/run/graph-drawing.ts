/** Draws a graph of boxes as text, layers top down: an arc leads from a layer to one below. Boxes of a layer are ordered by the
 *  boxes they are connected with, so that few arcs cross. Meant for tens of boxes; nothing is cut. */

export interface DrawnBox {
  /** Each line at most as wide as it is shown; characters of one column. */
  readonly lines: readonly string[];
  /** Boxes below, by index; never in a cycle. */
  readonly to: readonly number[];
}

/** A box, or the place where an arc passes a layer. */
interface Place {
  readonly box: DrawnBox | null;
  readonly width: number;
  readonly layer: number;
  readonly above: Place[];
  readonly below: Place[];
  /** The left column. */
  x: number;
}

const GAP = 3;

/** The lines, without spaces at their ends. */
export function drawGraph(boxes: readonly DrawnBox[]): string[] {
  const layers = layersOf(boxes);
  for (let sweep = 0; sweep < 4; sweep++) orderBy(layers, sweep % 2 === 0 ? "above" : "below");
  align(layers);
  const grid = new LineGrid();
  let y = 0;
  for (const [i, layer] of layers.entries()) {
    const height = Math.max(1, ...layer.map(({ box }) => (box === null ? 0 : box.lines.length + 2)));
    for (const place of layer) drawPlace(grid, place, y, height);
    y += height;
    if (i < layers.length - 1) y += drawArcs(grid, layer, y);
  }
  return grid.lines();
}

/** The longest way from the top is the layer of a box. */
function layersOf(boxes: readonly DrawnBox[]): Place[][] {
  const depth = new Array<number>(boxes.length).fill(0);
  const waiting = new Array<number>(boxes.length).fill(0);
  for (const { to } of boxes) for (const each of to) waiting[each] = (waiting[each] as number) + 1;
  const ready = boxes.map((_, i) => i).filter((i) => waiting[i] === 0);
  for (let at = 0; at < ready.length; at++) {
    const from = ready[at] as number;
    for (const to of boxes[from]?.to ?? []) {
      depth[to] = Math.max(depth[to] as number, (depth[from] as number) + 1);
      waiting[to] = (waiting[to] as number) - 1;
      if (waiting[to] === 0) ready.push(to);
    }
  }
  const layers: Place[][] = [];
  const add = (box: DrawnBox | null, layer: number): Place => {
    const width = box === null ? 1 : Math.max(...box.lines.map((line) => [...line].length)) + 4;
    const place = { box, width, layer, above: [], below: [], x: 0 };
    while (layers.length <= layer) layers.push([]);
    layers[layer]?.push(place);
    return place;
  };
  const places = boxes.map((box, i) => add(box, depth[i] as number));
  for (const [i, { to }] of boxes.entries()) {
    for (const each of to) {
      let above = places[i] as Place;
      const target = places[each] as Place;
      while (above.layer + 1 < target.layer) above = connect(above, add(null, above.layer + 1));
      connect(above, target);
    }
  }
  return layers;
}

function connect(above: Place, below: Place): Place {
  above.below.push(below);
  below.above.push(above);
  return below;
}

function orderBy(layers: readonly Place[][], side: "above" | "below"): void {
  const position = new Map<Place, number>();
  const number = (layer: readonly Place[]) => {
    for (const [i, place] of layer.entries()) position.set(place, i);
  };
  for (const layer of side === "above" ? layers : layers.toReversed()) {
    const wanted = new Map<Place, number>();
    for (const [i, place] of layer.entries()) {
      const near = place[side].map((each) => position.get(each) ?? 0);
      wanted.set(place, near.length === 0 ? i : mean(near));
    }
    layer.sort((a, b) => (wanted.get(a) as number) - (wanted.get(b) as number));
    number(layer);
  }
}

function mean(numbers: readonly number[]): number {
  return numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
}

function centerOf({ x, width }: Place): number {
  return x + Math.floor(width / 2);
}

/** Each box below the middle of those above it, as far as its neighbours allow; then each above the middle of those below, where
 *  there is room. */
function align(layers: readonly Place[][]): void {
  for (const layer of layers) placeBy(layer, "above");
  for (const layer of layers.toReversed()) placeBy(layer, "below");
  for (const layer of layers) placeBy(layer, "above");
  const left = Math.min(...layers.flat().map(({ x }) => x));
  for (const place of layers.flat()) place.x -= left;
}

function placeBy(layer: readonly Place[], side: "above" | "below"): void {
  const wanted = layer.map((place) => {
    const near = place[side];
    return near.length === 0 ? place.x : Math.round(mean(near.map(centerOf))) - Math.floor(place.width / 2);
  });
  let end = Number.NEGATIVE_INFINITY;
  for (const [i, place] of layer.entries()) {
    place.x = Math.max(wanted[i] as number, end);
    end = place.x + place.width + GAP;
  }
  const shift = Math.round(mean(layer.map(({ x }, i) => (wanted[i] as number) - x)));
  for (const place of layer) place.x += shift;
}

function drawPlace(grid: LineGrid, place: Place, y: number, height: number): void {
  const middle = centerOf(place);
  if (place.box === null) {
    grid.vertical(middle, y, y + height - 1);
    return;
  }
  const { lines } = place.box;
  const [right, bottom] = [place.x + place.width - 1, y + lines.length + 1];
  grid.horizontal(y, place.x, right);
  grid.horizontal(bottom, place.x, right);
  grid.vertical(place.x, y, bottom);
  grid.vertical(right, y, bottom);
  for (const [i, line] of lines.entries()) grid.text(place.x + 2, y + 1 + i, line);
  if (place.below.length > 0) grid.vertical(middle, bottom, y + height - 1);
}

/** The lines between two layers. Arcs from one box, or to one box, share a row. Returns the height. */
function drawArcs(grid: LineGrid, layer: readonly Place[], y: number): number {
  const bundles = bundlesOf(layer);
  const rows: ColumnSpan[][] = [];
  const rowOf = bundles.map((bundle) => {
    const span = spanOf(bundle);
    if (span.from === span.to) return -1;
    const free = rows.findIndex((spans) => spans.every(({ from, to }) => to + 1 < span.from || span.to + 1 < from));
    const row = free < 0 ? rows.length : free;
    rows[row] = [...(rows[row] ?? []), span];
    return row;
  });
  const bottom = y + rows.length;
  for (const [i, bundle] of bundles.entries()) {
    const row = rowOf[i] as number;
    const { from, to } = spanOf(bundle);
    if (row >= 0) grid.horizontal(y + row, from, to);
    for (const above of bundle.above) grid.vertical(centerOf(above), y - 1, row < 0 ? bottom : y + row);
    for (const below of bundle.below) grid.vertical(centerOf(below), row < 0 ? y - 1 : y + row, bottom);
  }
  for (const to of new Set(layer.flatMap(({ below }) => below))) {
    if (to.box === null) grid.vertical(centerOf(to), bottom, bottom + 1);
    else grid.text(centerOf(to), bottom, "▼");
  }
  return rows.length + 1;
}

interface Bundle {
  readonly above: readonly Place[];
  readonly below: readonly Place[];
}

interface ColumnSpan {
  readonly from: number;
  readonly to: number;
}

/** All arcs to a box whose sources lead nowhere else; of other boxes, the arcs from each. */
function bundlesOf(layer: readonly Place[]): Bundle[] {
  const bundles: Bundle[] = [];
  const isDone = new Set<Place>();
  for (const place of layer) {
    const [only] = place.below;
    if (isDone.has(place) || only === undefined) continue;
    const isAlone = place.below.length === 1 && only.above.every(({ below }) => below.length === 1);
    const above = isAlone ? only.above : [place];
    for (const each of above) isDone.add(each);
    bundles.push({ above, below: place.below });
  }
  return bundles;
}

function spanOf({ above, below }: Bundle): ColumnSpan {
  const centers = [...above, ...below].map(centerOf);
  return { from: Math.min(...centers), to: Math.max(...centers) };
}

const [UP, DOWN, LEFT, RIGHT] = [1, 2, 4, 8];
/** By the directions in which a line leaves a cell. */
const LINES = [..." ╵╷│╴┘┐┤╶└┌├─┴┬┼"];

class LineGrid {
  readonly #rows: (number | string)[][] = [];

  vertical(x: number, from: number, to: number): void {
    for (let y = from; y < to; y++) {
      this.#add(x, y, DOWN);
      this.#add(x, y + 1, UP);
    }
  }

  horizontal(y: number, from: number, to: number): void {
    for (let x = from; x < to; x++) {
      this.#add(x, y, RIGHT);
      this.#add(x + 1, y, LEFT);
    }
  }

  text(x: number, y: number, text: string): void {
    for (const [i, char] of [...text].entries()) this.#row(y)[x + i] = char;
  }

  lines(): string[] {
    return this.#rows.map((row) =>
      Array.from(row, (cell) => (typeof cell === "string" ? cell : LINES[cell ?? 0]))
        .join("")
        .trimEnd(),
    );
  }

  #add(x: number, y: number, direction: number): void {
    const row = this.#row(y);
    const cell = row[x] ?? 0;
    if (typeof cell === "number") row[x] = cell | direction;
  }

  #row(y: number): (number | string)[] {
    while (this.#rows.length <= y) this.#rows.push([]);
    return this.#rows[y] as (number | string)[];
  }
}
