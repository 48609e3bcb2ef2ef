// Slack names reactions; svc shows the common ones as emoji.

const COMMON = `
+1 👍 -1 👎 thumbsup 👍 thumbsdown 👎 heart ❤️ tada 🎉 eyes 👀 white_check_mark ✅ heavy_check_mark ✔️ ballot_box_with_check ☑️
x ❌ negative_squared_cross_mark ❎ fire 🔥 100 💯 pray 🙏 clap 👏 raised_hands 🙌 ok_hand 👌 wave 👋 muscle 💪 rocket 🚀
joy 😂 rolling_on_the_floor_laughing 🤣 smile 😄 smiley 😃 grinning 😀 grin 😁 laughing 😆 sweat_smile 😅 blush 😊 slightly_smiling_face 🙂
upside_down_face 🙃 wink 😉 heart_eyes 😍 kissing_heart 😘 yum 😋 stuck_out_tongue 😛 sunglasses 😎 thinking_face 🤔 neutral_face 😐
expressionless 😑 no_mouth 😶 smirk 😏 unamused 😒 face_with_rolling_eyes 🙄 grimacing 😬 relieved 😌 pensive 😔 sleepy 😪 sleeping 😴 mask 😷
confused 😕 worried 😟 open_mouth 😮 hushed 😯 astonished 😲 flushed 😳 cry 😢 sob 😭 scream 😱 disappointed 😞 sweat 😓 weary 😩 tired_face 😫
triumph 😤 rage 😡 angry 😠 exploding_head 🤯 partying_face 🥳 star-struck 🤩 hugging_face 🤗 shushing_face 🤫 nerd_face 🤓 cold_sweat 😰
facepalm 🤦 shrug 🤷 saluting_face 🫡 melting_face 🫠 pleading_face 🥺 smiling_face_with_3_hearts 🥰 innocent 😇 skull 💀 ghost 👻 robot_face 🤖
hankey 💩 see_no_evil 🙈 hear_no_evil 🙉 speak_no_evil 🙊 broken_heart 💔 orange_heart 🧡 yellow_heart 💛 green_heart 💚 blue_heart 💙
purple_heart 💜 black_heart 🖤 white_heart 🤍 two_hearts 💕 sparkling_heart 💖 star ⭐ star2 🌟 sparkles ✨ zap ⚡ boom 💥 sunny ☀️ rainbow 🌈
snowflake ❄️ coffee ☕ beer 🍺 beers 🍻 champagne 🍾 pizza 🍕 cake 🍰 birthday 🎂 cookie 🍪 gift 🎁 balloon 🎈 trophy 🏆 medal 🏅 dart 🎯
bulb 💡 bug 🐛 wrench 🔧 hammer 🔨 gear ⚙️ lock 🔒 unlock 🔓 key 🔑 mag 🔍 bell 🔔 no_bell 🔕 loudspeaker 📢 mega 📣 memo 📝 pencil2 ✏️
pushpin 📌 paperclip 📎 link 🔗 calendar 📆 date 📅 clock1 🕐 hourglass ⌛ hourglass_flowing_sand ⏳ alarm_clock ⏰ stopwatch ⏱️ warning ⚠️
no_entry ⛔ no_entry_sign 🚫 octagonal_sign 🛑 construction 🚧 rotating_light 🚨 question ❓ exclamation ❗ bangbang ‼️ heavy_plus_sign ➕
heavy_minus_sign ➖ arrow_up ⬆️ arrow_down ⬇️ arrow_left ⬅️ arrow_right ➡️ recycle ♻️ repeat 🔁 speech_balloon 💬 email 📧 envelope ✉️ package 📦
chart_with_upwards_trend 📈 chart_with_downwards_trend 📉 money_with_wings 💸 moneybag 💰 dollar 💵 computer 💻 iphone 📱 phone ☎️ camera 📷
point_up ☝️ point_down 👇 point_left 👈 point_right 👉 v ✌️ crossed_fingers 🤞 raised_hand ✋ handshake 🤝 writing_hand ✍️ fist ✊ punch 👊
one 1️⃣ two 2️⃣ three 3️⃣ four 4️⃣ five 5️⃣ red_circle 🔴 large_green_circle 🟢 large_yellow_circle 🟡 large_blue_circle 🔵 white_circle ⚪ black_circle ⚫
checkered_flag 🏁 crown 👑 gem 💎 unicorn_face 🦄 dog 🐶 cat 🐱 monkey_face 🐵 panda_face 🐼 turtle 🐢 snail 🐌 bee 🐝 seedling 🌱 four_leaf_clover 🍀
rose 🌹 sunflower 🌻 earth_africa 🌍 moon 🌙 ocean 🌊 musical_note 🎵 headphones 🎧 art 🎨 books 📚 book 📖 scroll 📜 bar_chart 📊 clipboard 📋
inbox_tray 📥 outbox_tray 📤 wastebasket 🗑️ shield 🛡️ test_tube 🧪 brain 🧠 ear 👂 baby 👶 ninja 🥷 airplane ✈️ car 🚗 bike 🚲 ship 🚢 house 🏠`

const WORDS = COMMON.split(/\s+/).filter((word) => word !== '')
const PAIRS = WORDS.flatMap((name, at) => (at % 2 === 0 ? [[name, WORDS[at + 1] ?? ''] as const] : []))
const EMOJI = new Map(PAIRS)
// The first name of an emoji is the one to send.
const NAMES = new Map(PAIRS.toReversed().map(([name, emoji]) => [plain(emoji), name]))

/** Without the marks that only choose how it is drawn. */
function plain(emoji: string): string {
  return emoji.replaceAll('\ufe0f', '')
}

/** The emoji, or Slack's name for it. A skin tone is left out. */
export function emojiOf(name: string): string {
  const [base = name] = name.split('::', 1)
  return EMOJI.get(base) ?? base
}

/** The name for an emoji, or a name that is given as such; undefined for other text. */
export function emojiNameOf(reaction: string): string | undefined {
  const name = NAMES.get(plain(reaction).replace(/[\u{1f3fb}-\u{1f3ff}]/u, ''))
  if (name !== undefined) return name
  return /^:?([a-z0-9_+'-]{1,100}):?$/.exec(reaction)?.[1]
}
