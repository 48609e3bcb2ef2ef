// Names under which strangers register theirs, as far as an operator is likely to write one by mistake. The full list has
// thousands and changes every week; this one catches slips, and two letters or `xn--` are caught without it.

const TOP_LEVEL: ReadonlySet<string> = new Set(
  `com net org edu gov mil int arpa info biz name pro aero asia cat coop jobs mobi museum post tel travel xxx
  academy agency amazon app apple art aws azure bank bar best beer bid blog bot business buzz cab cafe camp care cash center
  chat church city click cloud club codes community company computer contact cool country courses day deal deals delivery
  design dev diamonds digital direct directory dog domains download earth education email energy engineer engineering
  enterprises estate events exchange expert express family fans farm fashion fail film finance fish fit foo football forum
  foundation fun fund fyi gallery game games garden gift global gmail gold golf goog google graphics green group guide
  guru health help hiphop holdings host hosting hot house how icu inc ink institute insure international investments irish
  jetzt kids kim land law legal lgbt life limited link live llc loan lol love ltd management market marketing mba med
  media meme men menu microsoft moe mom money mov movie network new news nexus ngo ninja observer one ong onl online
  ooo organic page partners parts party pet phd photo photography photos pics pictures pink pizza place plus press prod
  productions promo properties pub quest racing recipes red rent repair report rest review reviews rip rocks rsvp run sale
  school science services sex sexy shop shopping show site ski soccer social software solar solutions soy space
  storage store stream studio style sucks supplies supply support surf systems tax taxi team tech technology tennis tips
  tires today tools top tours town toys trade training tube university uno vacations vegas ventures vet video vin vip
  vision vote voyage wang watch webcam website wedding wiki win wine work works world wow wtf xyz yachts yoga youtube zip
  zone berlin hamburg london moscow nyc paris tokyo wien africa swiss`.split(/\s+/),
)

/** The second label where a country's registry sells the third: `co.uk`, `com.au`, `or.jp`. */
const SECOND_LEVEL: ReadonlySet<string> = new Set(
  'ac co com edu gob gov go ltd me mil ne net nom or org plc sch'.split(' '),
)

/** Where anybody gets a name, and with it a server that an allowlist would let a workload talk to. */
const HOSTING: ReadonlySet<string> = new Set(
  `amazonaws.com appspot.com azureedge.net azurewebsites.net blogspot.com cloudapp.net cloudfront.net core.windows.net
  firebaseapp.com fly.dev github.io githubusercontent.com gitlab.io googleusercontent.com herokuapp.com hf.space
  loca.lt netlify.app ngrok-free.app ngrok.app ngrok.io onrender.com pages.dev r2.dev railway.app replit.app repl.co
  run.app s3.amazonaws.com surge.sh trycloudflare.com vercel.app web.app windows.net workers.dev nip.io sslip.io
  duckdns.org`.split(/\s+/),
)

/** Of one label: whether every name in a domain of the public internet is below it. */
export function isTopLevel(label: string): boolean {
  return label.length === 2 || label.startsWith('xn--') || TOP_LEVEL.has(label)
}

/** Of a name of several labels: whether strangers get names below it. */
export function isShared(name: string): boolean {
  const [second = '', top = '', ...others] = name.split('.')
  return HOSTING.has(name) || (others.length === 0 && top.length === 2 && SECOND_LEVEL.has(second))
}
