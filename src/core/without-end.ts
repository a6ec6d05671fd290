/** A text without the characters at its end that are among `drop`. An expression such as `/x+$/` takes quadratic time on a long
 *  row of them that does not end the text. */
export function withoutEnd(text: string, drop: string): string {
  let end = text.length;
  while (end > 0 && drop.includes(text[end - 1] as string)) end -= 1;
  return text.slice(0, end);
}
