/** The kind of a file, by the end of its name. */
const TYPES: Readonly<Record<string, string>> = {
  ...{ txt: "text/plain", log: "text/plain", md: "text/markdown", csv: "text/csv", html: "text/html", css: "text/css" },
  ...{ json: "application/json", jsonl: "application/jsonl", xml: "application/xml", pdf: "application/pdf" },
  ...{ yaml: "application/yaml", yml: "application/yaml", js: "text/javascript", wasm: "application/wasm" },
  ...{ png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", svg: "image/svg+xml" },
  ...{ webp: "image/webp", mp3: "audio/mpeg", wav: "audio/wav", mp4: "video/mp4", webm: "video/webm" },
  ...{
    zip: "application/zip",
    gz: "application/gzip",
    tar: "application/x-tar",
    parquet: "application/vnd.apache.parquet",
  },
};

export function mimeOf(name: string): string {
  const end = name.slice(name.lastIndexOf(".") + 1).toLowerCase();
  return Object.hasOwn(TYPES, end) ? (TYPES[end] as string) : "application/octet-stream";
}
