"""Sentences about the form of answers that are lasting wishes, and others in like words that are not.

The rules were tried on the `SEEN` ones until all were right. `HELD` ones were written before, and tried at the end.
"""

from __future__ import annotations

from typing import Final


def _lines(text: str) -> list[str]:
    return text.strip().splitlines()


SEEN_WISHES: Final = _lines("""
Number the steps.
Don't use lists.
Put a heading above each part.
Ask a question before you write code.
Please don't show code.
Please end your messages with a question.
Please put the answer in bold.
Write the key terms in italics.
Highlight the result.
Add a summary at the end.
Give me a short outline before you start.
No tables.
Leave out the greeting.
Do not add disclaimers.
Use code blocks for commands.
Show the formula first.
State your assumptions.
Tell me how sure you are.
Say how confident you are in each answer.
Give an example for each idea.
Explain it with an analogy.
One step per message.
Only one question at a time, please.
Split your answer into sections.
Use plain text only.
No markdown please.
Use a friendly tone.
Sound less robotic.
Write in lower case.
Answer in one line.
Under 80 words, please.
Two sentences are enough.
Skip the introduction.
Finish with the next step.
Start with the conclusion.
I want headings in your answers.
I like tables.
Don't answer with a question.
Cite your sources.
Include links to your sources.
Use fewer words.
Less text, please.
""")

SEEN_OTHERS: Final = _lines("""
Number 7 is broken.
Put the order on my card.
End the subscription.
Show me the code of order 7.
Ask the bank before you pay.
List my orders.
Number of guests: 4.
Put a table near the window.
Book a table for two.
Ask the hotel a question about parking.
Don't show my address to the seller.
I need a summary of my last bill.
Give me the code for the discount.
Use the code SAVE20.
Don't use my points.
Write a heading for the ad.
Add the summary to the ticket.
Put the file in the folder Reports.
Bold move, thanks.
Start the timer.
Finish the booking.
End the call.
Start with flight AA12.
The table has a heading.
Is that the code?
I asked before: where is my parcel?
That is not how I want it: the sleeves are too long.
As I said, cancel it.
Again: refund me.
I told you to cancel the order.
Drop the second item.
Leave out the insurance.
Skip the seat selection.
Highlight row 3 in the sheet.
Split the bill in two.
Split the payment between two cards.
Label the box as fragile.
One ticket per person.
Two bags are enough.
Under 80 dollars, please.
Explain the charge on my bill.
Tell me how much it costs.
Say hello to Bob.
Use plain packaging.
Answer my question please.
Give me an example of a valid password.
Sound the alarm at 7.
No tables are left.
I like the tables in the lobby.
I want the heading of the page changed.
Do not add the insurance.
Include breakfast.
Include my wife in the booking.
Cite this paper in my essay.
Don't answer the phone.
Give me two options for hotels.
List the files in the folder.
Put a note on the door.
Put the meeting in my calendar.
Translate this letter into German.
Write a story in three parts.
Format the hard disk.
Let's end here.
Number the pages of the report.
Mark all messages as read.
Send the list to Ann.
Close the ticket with a note.
Summarise the report.
Open with a bid of 200.
Don't list the item again.
Don't number the tickets.
Drop the table.
""")

HELD_WISHES: Final = _lines("""
Bold the final result.
Give every section a title.
Use numbered lists.
Do not number anything.
Stop listing things.
Close with a question.
Wrap up with a one-sentence summary.
Finish each message with a recap.
Begin with a short overview.
Open every reply with the answer.
Put commands in code blocks.
No code, please.
Leave code out.
Ask me a clarifying question first.
Ask before you write any code.
Keep paragraphs short.
No long paragraphs.
Write shorter sentences.
Use simple words.
Use everyday language.
Explain it like I'm five.
Be warmer.
Drop the formal tone.
Don't be so formal.
Talk to me casually.
No small talk.
No smileys.
Go easy on the emojis.
Cut the exclamation marks.
Spell out numbers.
Avoid abbreviations.
Define technical terms.
Add an example to every explanation.
Use a table to compare options.
Show your work.
Show all intermediate steps.
Only give me the result.
Just the answer, please.
Put the most important thing first.
Make the answer stand out in bold.
Max. 40 words.
At most two paragraphs.
I'd like a summary at the end of each answer.
Your messages need headings.
German, please.
Please switch to Dutch.
Give your confidence with every answer.
Suggest a next step at the end.
Don't suggest anything I did not ask for.
Don't repeat my question.
Separate the parts with headings.
Structure your answer with bullet points.
Lists are fine, but no nested ones.
""")

HELD_OTHERS: Final = _lines("""
Number 12 never arrived.
Number two is the one I want.
Put it on my tab.
Put the sofa by the window.
Put two more in the cart.
Put my name in the title of the booking.
End my trial.
End the contract in May.
Finish the order.
Close my account.
Close the window before you leave.
Open the attachment.
Open a dispute.
Begin the return.
Start a new claim.
Start the dishwasher at six.
Show my points.
Show me tables under 200 dollars.
Show the seats that are left.
Show me the summary of charges.
Show me what's in the list.
List all flights to Rome.
List the item on eBay.
Ask the driver to wait.
Ask my wife before you charge the card.
Ask for a window seat.
Ask Tom a question about the invoice.
Code 4 appears on the screen.
The code doesn't work.
Send me the code again.
Don't send the code to my old phone.
Don't use that code.
No code arrived.
No list was attached.
No table is free.
Bold and italic are broken in the editor.
Make the headline bold in the flyer.
Write a title for my talk.
Write three sentences about Paris.
Write a summary of the call for Ann.
Add a table to the reservation.
Add a question to the survey.
Add bullet 3 to the slide.
Add a heading to page 2.
Use the table by the door.
Use the second list.
Use the summary from last week.
I like that list.
I want a table with four chairs.
I want the code.
I don't want the list, I want the invoice.
I asked you to refund me.
I said no to the offer.
I told you: the parcel is lost.
Not like that: the blue one goes first.
Again: where is my refund?
Once more: the number is 4417.
You forgot again: the second bag.
How often do I have to say it: I paid.
Keep the table.
Keep the change.
Make it two.
Pay in euros.
Cut the rope to two metres.
Drop me at the station.
Skip the second song.
Summarise chapter 3.
Spell my name right on the ticket.
Translate the menu to English.
Switch to the annual plan.
Switch the lights off.
Max. two bags per person.
At most two people can come.
Just the ticket, please.
Only the blue one, please.
Explain the error in line 3.
Suggest a hotel.
Repeat the order.
Give your condolences to Ann.
Separate the white clothes.
Structure the deal as a lease.
Is a summary included?
There are too many emojis in the app.
The headings in your catalogue are wrong.
My question is about the table.
That's a bold claim.
""")

SEEN_REMINDERS: Final = {
    "I asked before: Number the steps.": "Number the steps.",
    "That is not how I want it: No tables.": "No tables.",
    "As I said, use short paragraphs.": "use short paragraphs.",
    "Again: no emojis.": "no emojis.",
    "I told you not to use emojis.": "not to use emojis.",
    "Please remember: put the answer in bold.": "put the answer in bold.",
}
"""Sentences that remind of a wish, and the wish alone."""
HELD_REMINDERS: Final = {
    "I said no lists!": "no lists!",
    "I told you before: use headings.": "use headings.",
    "Not like that: keep it to one paragraph.": "keep it to one paragraph.",
    "You forgot again: answer in French.": "answer in French.",
    "How often do I have to say it: no emojis.": "no emojis.",
    "Once more: end with a summary.": "end with a summary.",
    "I already asked you to number the steps.": "number the steps.",
    "Like I said before - no code.": "no code.",
    "This isn't what I asked for: write in German.": "write in German.",
    "You didn't keep to it: at most 50 words.": "at most 50 words.",
}
