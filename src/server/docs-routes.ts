/** The description of the interface, for programs and for people. Any valid token will do; a browser may ask its user
 *  for one, since it cannot be told to send a header. */
import { DOCS_POLICY, docsPage } from "./docs-page.ts";
import { openApiDocument } from "./openapi.ts";
import { HIJACKED, JsonText, type ServerParts } from "./parts.ts";
import type { ServedRoute } from "./served-route.ts";

export function docsRoutes({ version }: ServerParts): ServedRoute[] {
  const shared: Omit<ServedRoute, "name" | "path" | "handle"> = {
    ...{ method: "GET", access: { scope: null, basic: true }, accepts: [], schema: {}, status: 200 },
    share: () => "reader",
  };
  // Made when first asked for: most servers never are.
  let document: string | null = null;
  let page: string | null = null;
  return [
    {
      ...{ ...shared, name: "openapi", path: "/openapi.json" },
      async handle() {
        document ??= JSON.stringify(openApiDocument(version));
        return new JsonText(document);
      },
    },
    {
      ...{ ...shared, name: "docs", path: "/docs" },
      async handle({ reply }) {
        page ??= docsPage(version);
        reply
          .headers({ "content-type": "text/html; charset=utf-8", "content-security-policy": DOCS_POLICY })
          .send(page);
        return HIJACKED;
      },
    },
  ];
}
