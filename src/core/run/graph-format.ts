/** How graphs of playbooks and runs are written. */
export const GRAPH_FORMATS = ["ascii", "mermaid", "json"] as const;
/** How a graph is written.
 *  @example
 *  const format: GraphFormat = "mermaid"; */
export type GraphFormat = (typeof GRAPH_FORMATS)[number];
